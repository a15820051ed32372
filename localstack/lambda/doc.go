// Command lambda runs a deployment on this machine: the bootstrap binaries that would be deployed,
// as processes behind the Lambda Runtime API. It feeds them as Lambda does, on the DynamoDB and SQS
// at the endpoints of the environment, and kills, duplicates and delays on request.
//
//	localstack/aws.sh run go run ./localstack/lambda -config shop.yaml -kill-every 2s -duplicate 0.2
//
// Files:
//
//	main.go       flags
//	run.go        one run, from creating the tables to the end of the last batch
//	endpoints.go  AWS_ENDPOINT_URL and its like; nothing runs without them
//	tables.go     tables, queues and the bucket, created if missing, as infra creates them
//	bootstraps.go finds or builds the binaries
//	serve.go      the HTTP API and the event source mappings
//	faults.go     kills, duplicates and hangs on purpose
//
// # Errors
//
// An error at the start names what to do about it: endpoints that are not set, bootstraps that are
// missing, a configuration that the functions refuse. Later errors are logged, and the message is
// redelivered as it would be on AWS. The exit code is 2 for a wrong command line or configuration.
//
// # Limits
//
// Every caller is anonymous, as behind a function URL without authorization. Emulators report the
// same SenderId for every sender, so that anyone who can send to the queues is trusted like the
// functions themselves. Without an endpoint for S3 there is no bucket: a state too large for a
// record is refused. File destinations belong to the embedded system.
package main
