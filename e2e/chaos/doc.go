// Package chaos judges a run of the product by its evidence: the offered messages, the answers to
// clients, and the output. It shares no code with the product, nor with the driver of the run. It
// uses only the standard library and a folder of files, so that a verdict can be checked by reading
// the same files in another way.
//
//	offered.jsonl   every message, before it was offered for the first time         [Offer]
//	told.jsonl      every answer to a client                                        [Answer]
//	status.jsonl    the final status of every message in the public API             [Status]
//	ledger.jsonl    the file destination, as the product wrote it                   [Line]
//	posts.jsonl     every request that the webhook receiver handled                 [Post]
//	letters.jsonl   the final content of the dead-letter queues                     [Letter]
//	run.json        the destinations of each stream, faults, leftovers              [Run]
//
// Run go run ./chaos/judge FOLDER, in e2e, to judge a folder that a run has kept.
//
// # Limits
//
// It keeps about half a kilobyte a message in memory. It trusts the files: it can't detect a run
// that records its offers wrongly.
package chaos
