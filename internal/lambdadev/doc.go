// Package lambdadev runs a deployment on this machine: the bootstrap binaries that would be deployed, as processes behind the Lambda Runtime API, fed as Lambda feeds them, on
// whatever answers for DynamoDB and SQS at the endpoints of the environment.
//
//	run.go        one run, from the tables to the end of the last batch
//	endpoints.go  AWS_ENDPOINT_URL and its like: nothing runs without them
//	tables.go     tables, queues and the bucket, made where they are missing, as infra makes them
//	bootstraps.go where the binaries come from
//	serve.go      the front door and the event source mappings
//	faults.go     kills, duplicates and hangs on purpose
//
// # Errors
//
// What hinders the start names what to do about it: endpoints that are not set, bootstraps that are not there, a configuration that the functions refuse. What fails later is
// logged, and comes again as it would on AWS.
//
// # Limits
//
// Every caller is anonymous, as behind a function URL without authorization. Whoever can send to the queues is trusted like the functions themselves where the endpoint
// calls both by one SenderId, which emulators do. Without an endpoint for S3 there is no bucket: what is too large for a record is refused. Destinations that are files belong to the embedded system.
package lambdadev
