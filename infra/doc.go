// Package infra is the deployment of a system to AWS: constructs of the CDK that can be used in anybody's app, and the stack that they make together.
//
//	Tables     the two tables
//	Queues     the ingress and publish queues with their dead-letter queues
//	API        the HTTP API or REST API in front of the ingest function
//	Pipeline   all of these with the bucket, the three functions and the scheduled sweep
//	Alarms     one for each sign that a message may be stuck or lost
//	Dashboard  the same on one page
//	NewStack   everything, as Settings say; app/ is the program that reads them from the context of the CDK
//
// Every default is the one for production: what is stored is kept, encrypted and recoverable, every caller is authenticated, and no policy has a wildcard that
// AWS does not force. docs/deploy.md has the settings, docs/security.md the reasons.
//
// # Errors
//
// Constructs panic, as constructs do. NewStack, NewPipeline and what reads settings give errors that name the setting.
//
// # Limits
//
// Keys are AWS's own: customer-managed keys of KMS are not supported. One stack is one system in one account and region.
package infra
