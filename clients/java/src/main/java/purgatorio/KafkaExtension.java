package purgatorio;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.LifecycleMethodExecutionExceptionHandler;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * A cluster for the tests of a class. It starts before them, is reset between them, and ends after the last one; when a
 * test fails, why is printed, also as it was while the test waited for a client to close. A test takes it as a parameter, or from the field:
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
        implements BeforeAllCallback,
                BeforeEachCallback,
                LifecycleMethodExecutionExceptionHandler,
                BeforeTestExecutionCallback,
                AfterTestExecutionCallback,
                AfterAllCallback,
                ParameterResolver {
    /** A cluster that hangs must not hold up the tests behind it. */
    private static final Duration REPORT_TIMEOUT = Duration.ofSeconds(2);

    private final KafkaOptions options;
    private Kafka kafka;
    private boolean used;
    private Closing closing;

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
    public void handleBeforeEachMethodExecutionException(ExtensionContext context, Throwable error) throws Throwable {
        report();
        throw error;
    }

    @Override
    public void beforeTestExecution(ExtensionContext context) {
        closing = new Closing(Thread.currentThread(), this::whyText);
    }

    /** After the test's own code, and before the methods that close its clients. */
    @Override
    public void afterTestExecution(ExtensionContext context) {
        String whileClosing = closing.end();
        if (context.getExecutionException().isPresent()) {
            if (whileClosing != null) {
                System.err.println("while the test waited for a client to close:\n" + whileClosing + "\nwhen it had closed:");
            }
            report();
        }
    }

    private void report() {
        if (kafka != null) {
            System.err.println(whyText());
        }
    }

    private String whyText() {
        return reportText(kafka) + "\nKafka at " + kafka.bootstrap();
    }

    private static String reportText(Kafka kafka) {
        try {
            return CompletableFuture.supplyAsync(kafka::report).get(REPORT_TIMEOUT.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            return error.getCause().getMessage();
        } catch (TimeoutException error) {
            return "the Kafka cluster makes no report within " + REPORT_TIMEOUT.toSeconds() + " s";
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return "interrupted";
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
