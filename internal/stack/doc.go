// Package stack is a deployed system as its operators see it: found by the outputs of a CloudFormation stack, looked into, mended and checked through AWS's own APIs.
//
// Open finds the tables and queues; nothing else is read or written until it is asked for. A [System] answers what a data folder answers too, [Stack.Check] compares the
// deployment with its configuration, [Signer] and [QueueSender] take messages in.
//
// # Credentials and endpoints
//
// Credentials, region and profile come as the AWS SDK finds them everywhere: environment, shared files, SSO, roles. Endpoints come from AWS_ENDPOINT_URL and
// AWS_ENDPOINT_URL_service only.
//
// # Errors
//
// A [*SetupError] says what is missing before anything was done, a [*DeniedError] what AWS refused; both say what to do about it. [admin.ErrNotFound] is what it is elsewhere.
//
// # Limits
//
// Handlers run in the deployed functions and nowhere else: a sweep from here asks for them, see [System.Sweep]. Of a first-in-first-out dead-letter queue no more
// than ten messages of one group can be seen at once: SQS hides the others behind them. The functions put dead letters back, because
// a message counts as sent by whoever sends it, see [System.Redrive].
package stack
