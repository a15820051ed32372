// Package deployed gives operators access to a deployed system: it is found by the outputs of a
// CloudFormation stack, and read, repaired and checked through AWS's own APIs.
//
// Open finds the tables and queues; nothing else is read or written until a method is called. A
// [System] has the same methods as a data folder's, [Stack.Check] compares the deployment with its
// configuration, [Signer] and [QueueSender] send messages.
//
// # Credentials and endpoints
//
// Credentials, region and profile come as the AWS SDK finds them everywhere: environment, shared
// files, SSO, roles. Endpoints come from AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_service only.
//
// # Errors
//
// A [*SetupError] reports a missing precondition before anything was done, a [*DeniedError] a call
// that AWS refused; both advise how to correct it. If a message or a group is unknown, the error is
// [admin.ErrNotFound], as everywhere.
//
// # Limits
//
// Handlers run in the deployed functions and nowhere else: a sweep from here asks for them, see
// [System.Sweep]. No more than ten messages of one group of a first-in-first-out dead-letter queue
// can be seen at once: SQS hides the others behind them. The functions put dead letters back,
// because SQS records the role that sends a message as its sender, see [System.Redrive].
package deployed
