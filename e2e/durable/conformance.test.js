// Runs the conformance tests of the protocol against the server at ONCE_URL.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({ baseUrl: process.env.ONCE_URL, longPollTimeoutMs: 20000 })
