import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's tools one after the other in one process, since the start of each takes a second of CPU.
 *
 * Each line of the standard input is a class and its arguments, with spaces between them. The answer is one line: what
 * the tool wrote to its standard output and to its standard error, each in base64 behind a colon.
 */
public class Tools {
    private static class Ended extends Error {}

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        ByteArrayOutputStream written = new ByteArrayOutputStream(), errors = new ByteArrayOutputStream();
        System.setOut(new PrintStream(written, true));
        System.setErr(new PrintStream(errors, true));
        Exit.setExitProcedure((status, message) -> {
            throw new Ended();
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split(" ");
            String[] arguments = Arrays.copyOfRange(words, 1, words.length);
            try {
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException ended) {
                if (!(ended.getCause() instanceof Ended)) {
                    ended.getCause().printStackTrace();
                }
            }
            Base64.Encoder base64 = Base64.getEncoder();
            answers.println(":" + base64.encodeToString(written.toByteArray()) + ":" + base64.encodeToString(errors.toByteArray()));
            written.reset();
            errors.reset();
        }
    }
}
