import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Logs in by SASL and produces for some seconds: BOOTSTRAP MECHANISM USER PASSWORD CA SECONDS. */
public class Login {
    static final String SECURITY = "org.apache.kafka.common.security.";

    static String jaas(String mechanism, String user, String password) {
        if (mechanism.equals("OAUTHBEARER")) {
            return SECURITY + "oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"" + user + "\";";
        }
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        return SECURITY + module + " required username=\"" + user + "\" password=\"" + password + "\";";
    }

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("security.protocol", "SASL_SSL");
        config.put("sasl.mechanism", args[1]);
        config.put("sasl.jaas.config", jaas(args[1], args[2], args[3]));
        config.put("ssl.truststore.type", "PEM");
        config.put("ssl.truststore.location", args[4]);
        config.put("max.block.ms", "10000");
        config.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        config.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        long end = System.currentTimeMillis() + Long.parseLong(args[5]) * 1000;
        int sent = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            do {
                producer.send(new ProducerRecord<>("orders", "x")).get();
                sent++;
                Thread.sleep(100);
            } while (System.currentTimeMillis() < end);
            System.out.println("sent " + sent);
        } catch (ExecutionException error) {
            System.out.println("refused " + error.getCause());
        }
    }
}
