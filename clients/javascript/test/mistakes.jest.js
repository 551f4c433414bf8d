const { useKafka } = require("purgatorio/jest");
const { mistakes } = require("./mistakes.js");

afterEach(mistakes(useKafka({ topics: { orders: 1 } }), test, expect));
