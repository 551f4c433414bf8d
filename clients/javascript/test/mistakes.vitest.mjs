import { afterEach, expect, test } from "vitest";
import { useKafka } from "purgatorio/vitest";
import { mistakes } from "./mistakes.js";

afterEach(mistakes(useKafka({ topics: { orders: 1 } }), test, expect));
