// Package dynamodelay keeps delayed messages in the DynamoDB table of groups.
//
// An item has a partition key of its own, delay~SHARD, which no group can have, and a sort key that
// begins with the due time. Items are spread over four shards by their names, so that writers do
// not share the throughput of one partition. To find the earliest items, each shard is queried from
// its beginning. An item has no time-to-live: a message is deleted only after its queue has it.
//
// # Costs
//
// A Put is a write, and so is a Delete, of a unit for each kilobyte. A look without anything due is
// a read unit for each shard. Due items are read in pages, a unit for each 4 KB.
//
// # Errors
//
// An item that is larger than DynamoDB takes wraps [delay.ErrTooLarge], an attribute of another
// kind [record.ErrCorrupt]. Every other error is that of the client, and may be retried.
//
// # Limits
//
// A message has at most about 390 KB.
package dynamodelay
