import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes keys with Kafka's own producer: brokers, topic and number on the command line. Each value is its key. */
public class Produce {
    public static void main(String[] args) throws Exception {
        Properties conf = new Properties();
        conf.put("bootstrap.servers", args[0]);
        conf.put("key.serializer", ByteArraySerializer.class.getName());
        conf.put("value.serializer", ByteArraySerializer.class.getName());
        int n = Integer.parseInt(args[2]);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(conf)) {
            for (int i = 0; i < n; i++) {
                // Lengths of every remainder by four, letters outside of ASCII, and bytes that are no text.
                byte[] key = switch (i % 3) {
                    case 0 -> ("k" + "x".repeat(i % 17) + i).getBytes(StandardCharsets.UTF_8);
                    case 1 -> ("kunde-\u00e4\u00f6\u00fc-\u20ac-" + i).getBytes(StandardCharsets.UTF_8);
                    default -> new byte[] {(byte) (i >> 8), (byte) i, (byte) 0xff, (byte) (255 - i % 256), 0};
                };
                producer.send(new ProducerRecord<>(args[1], key, key));
            }
            producer.send(new ProducerRecord<>(args[1], new byte[0], new byte[0]));
        }
    }
}
