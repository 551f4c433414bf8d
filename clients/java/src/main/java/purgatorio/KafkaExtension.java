package purgatorio;

import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * A cluster for the tests of a class. It starts before them, is reset between them, and ends after the last one; when a
 * test fails, what waits, and why, is printed. A test takes it as a parameter, or from the field:
 *
 * <pre>{@code
 * @RegisterExtension
 * static final KafkaExtension extension = new KafkaExtension(new KafkaOptions().topic("orders", 6));
 *
 * @Test
 * void bills(Kafka kafka) { … }
 * }</pre>
 *
 * {@code @ExtendWith(KafkaExtension.class)} is enough for a cluster of three brokers without topics.
 */
public final class KafkaExtension
        implements BeforeAllCallback, BeforeEachCallback, AfterTestExecutionCallback, AfterAllCallback, ParameterResolver {
    private final KafkaOptions options;
    private Kafka kafka;
    private boolean used;

    /** A cluster of three brokers without topics. */
    public KafkaExtension() {
        this(new KafkaOptions());
    }

    /** A cluster with these options. */
    public KafkaExtension(KafkaOptions options) {
        this.options = options;
    }

    /** The cluster, which runs while tests do. */
    public Kafka kafka() {
        if (kafka == null) {
            throw new IllegalStateException("the cluster runs while tests do; the field of the extension must be static");
        }
        used = true;
        return kafka;
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        if (kafka == null) { // nested classes share it
            kafka = Kafka.start(options);
        }
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        if (used) {
            kafka().reset();
        }
        used = false;
    }

    @Override
    public void afterTestExecution(ExtensionContext context) {
        if (context.getExecutionException().isPresent() && kafka != null) {
            System.err.println(context.getDisplayName() + " failed; Kafka at " + kafka.bootstrap());
            System.err.println(kafka.report());
        }
    }

    @Override
    public void afterAll(ExtensionContext context) {
        boolean isNested = context.getTestClass().map(each -> each.getEnclosingClass() != null && isInner(each)).orElse(false);
        if (kafka != null && !isNested) {
            kafka.close();
            kafka = null;
        }
    }

    private static boolean isInner(Class<?> testClass) {
        return !java.lang.reflect.Modifier.isStatic(testClass.getModifiers());
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Kafka.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return kafka();
    }
}
