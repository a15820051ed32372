// Package infra deploys a system to AWS: constructs of the CDK that can be used in any app, and a
// stack of all of them.
//
//	Tables     the two tables
//	Queues     the ingress and publish queues with their dead-letter queues
//	API        the HTTP API or REST API in front of the ingest function
//	Pipeline   all of these with the bucket, the three functions and the scheduled sweep
//	Alarms     one for each sign that a message may be stuck or lost
//	Dashboard  the same on one page
//	NewStack   everything, configured by Settings; the program in app/ reads these from the context
//
// The defaults are for production: data is retained, encrypted and recoverable, every caller is
// authenticated, and no policy has a wildcard unless AWS requires it. docs/deploy.md has the
// settings, docs/security.md the reasons.
//
// # Errors
//
// Constructs panic, as usual in the CDK. NewStack, NewPipeline and ReadSettings return errors that
// name the setting.
//
// # Limits
//
// One pipeline is one system in one account and region.
package infra
