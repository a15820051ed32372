// Package lambda wires the deployed system: the handlers of the three functions, on DynamoDB and SQS. They are the same handlers as in the embedded system; only the
// ports differ. Opening does no call.
//
// # Limits
//
// Destinations are webhooks and other streams. Blobs have no store yet: a handler that makes one fails.
package lambda
