"""A request on its way to its handler and its answer: requests, routes, replies, layers before handlers."""
