package purgatorio;

/** The cluster does not do an operation; the message says why. */
public final class KafkaRefused extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final int status;

    KafkaRefused(String message, int status) {
        super(message);
        this.status = status;
    }

    /** The status of HTTP: 400 cannot be, 404 is not there, 409 refused, 503 not now. */
    public int status() {
        return status;
    }
}
