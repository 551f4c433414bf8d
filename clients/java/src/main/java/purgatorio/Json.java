package purgatorio;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON as Map, List, String, Long, Double, Boolean and null: no library is needed for what a cluster says. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** The object that a text is. */
    static Map<String, Object> object(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.blank();
        if (!(value instanceof Map) || json.at < text.length()) {
            throw json.wrong();
        }
        return cast(value);
    }

    /** The objects that a list has. */
    static List<Map<String, Object>> objects(Object list) {
        return cast(list);
    }

    @SuppressWarnings("unchecked")
    static <T> T cast(Object value) {
        return (T) value;
    }

    static String write(Object value) {
        StringBuilder into = new StringBuilder();
        write(value, into);
        return into.toString();
    }

    private static void write(Object value, StringBuilder into) {
        if (value instanceof Map<?, ?> map) {
            String before = "{";
            for (Map.Entry<?, ?> each : map.entrySet()) {
                into.append(before);
                write(String.valueOf(each.getKey()), into);
                write(each.getValue(), into.append(':'));
                before = ",";
            }
            into.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> list) {
            into.append('[');
            String before = "";
            for (Object each : list) {
                write(each, into.append(before));
                before = ",";
            }
            into.append(']');
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            into.append(value);
        } else {
            into.append('"');
            String.valueOf(value).chars().forEach(each -> {
                if (each == '"' || each == '\\') {
                    into.append('\\').append((char) each);
                } else if (each < 0x20 || each > 0x7e) {
                    into.append(String.format("\\u%04x", each));
                } else {
                    into.append((char) each);
                }
            });
            into.append('"');
        }
    }

    private Object value() {
        blank();
        if (at >= text.length()) {
            throw wrong();
        }
        switch (text.charAt(at)) {
            case '{':
                Map<String, Object> map = new LinkedHashMap<>();
                for (boolean more = opened('}'); more; more = followed('}')) {
                    blank();
                    String name = string();
                    blank();
                    expect(':');
                    map.put(name, value());
                }
                return map;
            case '[':
                List<Object> list = new ArrayList<>();
                for (boolean more = opened(']'); more; more = followed(']')) {
                    list.add(value());
                }
                return list;
            case '"':
                return string();
            default:
                return word();
        }
    }

    private boolean opened(char end) {
        at++;
        blank();
        if (at < text.length() && text.charAt(at) == end) {
            at++;
            return false;
        }
        return true;
    }

    private boolean followed(char end) {
        blank();
        if (at < text.length() && text.charAt(at) == ',') {
            at++;
            return true;
        }
        expect(end);
        return false;
    }

    private String string() {
        expect('"');
        StringBuilder found = new StringBuilder();
        while (at < text.length() && text.charAt(at) != '"') {
            char each = text.charAt(at++);
            found.append(each == '\\' ? escaped() : each);
        }
        expect('"');
        return found.toString();
    }

    private char escaped() {
        char each = at < text.length() ? text.charAt(at++) : 0;
        if (each == 'u' && at + 4 <= text.length()) {
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        }
        int known = "\"\\/bfnrt".indexOf(each);
        if (known < 0) {
            throw wrong();
        }
        return "\"\\/\b\f\n\r\t".charAt(known);
    }

    private Object word() {
        int start = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(start, at);
        switch (word) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                try {
                    return word.matches("-?\\d+") ? (Object) Long.valueOf(word) : (Object) Double.valueOf(word);
                } catch (NumberFormatException error) {
                    throw wrong();
                }
        }
    }

    private void expect(char wanted) {
        if (at >= text.length() || text.charAt(at) != wanted) {
            throw wrong();
        }
        at++;
    }

    private void blank() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("not JSON at character " + at + ": " + text);
    }
}
