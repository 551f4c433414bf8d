package purgatorio;

import java.util.LinkedHashMap;
import java.util.Map;

/** What is done to a cluster; {@link Operations} has all of them. */
public abstract class Operation {
    final String method;
    final String path;
    final Map<String, Object> inPath = new LinkedHashMap<>();
    final Map<String, Object> inQuery = new LinkedHashMap<>();
    final Map<String, Object> inBody = new LinkedHashMap<>();

    Operation(String method, String path) {
        this.method = method;
        this.path = path;
    }

    void path(String name, Object value) {
        inPath.put(name, value);
    }

    /** Give it, unless it is null: then it is left out. */
    void query(String name, Object value) {
        if (value != null) {
            inQuery.put(name, value);
        }
    }

    void body(String name, Object value) {
        inBody.put(name, value);
    }

    void whole(Map<String, ?> body) {
        inBody.putAll(body);
    }
}
