// Package chaos judges a run of the product by what it left behind: what was offered, what clients were told, and what came out. It shares no code with the product, nor with what drove the run: it
// is the standard library and a folder of files, so that whoever doubts a verdict can read the same files by other means.
//
//	offered.jsonl   every message, before it was offered for the first time         [Offer]
//	told.jsonl      every answer that a client was given                            [Answer]
//	status.jsonl    what the public API said of every message in the end            [Status]
//	ledger.jsonl    the file destination, as the product wrote it                   [Line]
//	posts.jsonl     every request that the webhook receiver handled                 [Post]
//	letters.jsonl   what lay in the dead-letter queues in the end                   [Letter]
//	run.json        where each stream's messages must come out, faults, leftovers   [Run]
//
// go run ./chaos/judge FOLDER, in e2e, judges a folder that a run has kept.
//
// # Limits
//
// It keeps about half a kilobyte a message in memory. It believes the files: a run that writes down wrongly what it offered is beyond it.
package chaos
