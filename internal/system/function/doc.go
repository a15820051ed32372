// Package function wires the deployed system: the handlers of the three functions, on DynamoDB and
// SQS. They are the same handlers as in the embedded system; only the ports differ. Opening makes
// no call.
//
// # Limits
//
// Destinations that are files belong to the embedded system. If there is no bucket, a handler that
// makes a blob fails, and a value that is too large for a record is refused.
package function
