import java.io.*;
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.*;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;

/** A folder as the tier of Apache Kafka, which has no such plug-in of its own. Reads take as long as its file "delay" says. */
public class FolderRsm implements RemoteStorageManager {
  private Path dir;

  public void configure(Map<String, ?> configs) {
    dir = Paths.get((String) configs.get("dir"));
    try {
      Files.createDirectories(dir);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private Path of(RemoteLogSegmentMetadata segment, String part) {
    return dir.resolve(segment.remoteLogSegmentId().id() + "." + part);
  }

  public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data)
      throws RemoteStorageException {
    try {
      Files.copy(data.logSegment(), of(segment, "log"), StandardCopyOption.REPLACE_EXISTING);
      Files.copy(data.offsetIndex(), of(segment, "OFFSET"), StandardCopyOption.REPLACE_EXISTING);
      Files.copy(data.timeIndex(), of(segment, "TIMESTAMP"), StandardCopyOption.REPLACE_EXISTING);
      if (data.transactionIndex().isPresent())
        Files.copy(data.transactionIndex().get(), of(segment, "TRANSACTION"), StandardCopyOption.REPLACE_EXISTING);
      Files.copy(data.producerSnapshotIndex(), of(segment, "PRODUCER_SNAPSHOT"), StandardCopyOption.REPLACE_EXISTING);
      ByteBuffer epochs = data.leaderEpochIndex().duplicate();
      byte[] bytes = new byte[epochs.remaining()];
      epochs.get(bytes);
      Files.write(of(segment, "LEADER_EPOCH"), bytes);
      return Optional.empty();
    } catch (IOException e) {
      throw new RemoteStorageException(e);
    }
  }

  public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) throws RemoteStorageException {
    try {
      Path delay = dir.resolve("delay");
      if (Files.exists(delay)) Thread.sleep(Integer.parseInt(Files.readString(delay).trim()));
    } catch (Exception e) {
      throw new RemoteStorageException(e);
    }
    return fetchLogSegment(segment, start, Integer.MAX_VALUE);
  }

  public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end) throws RemoteStorageException {
    try {
      FileInputStream file = new FileInputStream(of(segment, "log").toFile());
      file.getChannel().position(start);
      return new BufferedInputStream(file, 65536);
    } catch (IOException e) {
      throw new RemoteStorageException(e);
    }
  }

  public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) throws RemoteStorageException {
    try {
      return new FileInputStream(of(segment, type.name()).toFile());
    } catch (FileNotFoundException e) {
      throw new RemoteResourceNotFoundException(e);
    }
  }

  public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) throws RemoteStorageException {
    try {
      for (String part : new String[] {"log", "OFFSET", "TIMESTAMP", "TRANSACTION", "PRODUCER_SNAPSHOT", "LEADER_EPOCH"})
        Files.deleteIfExists(of(segment, part));
    } catch (IOException e) {
      throw new RemoteStorageException(e);
    }
  }

  public void close() {}
}
