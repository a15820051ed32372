// Package powertools reads the idempotency records of Powertools for AWS Lambda (Python, TypeScript
// and Java), and computes their keys. A service can so move from Powertools to decorators or
// middleware, and still answer every old key with its old reply.
//
// # Keys
//
// A key is PREFIX#HASH. The hash is of the payload's JSON, which each language writes in its own
// way: with other spaces, escapes, numbers and orders of fields.
package powertools
