// Package e2e checks the whole product from outside: it builds the real binary, runs it as a process of its own, kills it at bad moments, and
// judges it by what it printed, wrote and sent.
//
// The judges share no code with the engine. They read the file destination line by line, the log of a webhook receiver of their own, and what
// clients were told.
//
//	server_test.go      a process that can be killed and started again
//	killer_test.go      kills it at random moments
//	receiver_test.go    a webhook receiver that fails, forgets to answer, and remembers webhook-id
//	judge_test.go       what must hold for output, receiver and stores
//	deliveries_test.go  real GitHub webhook payloads, from npm
//	http_test.go …      the checks of the embedded system
//	contract*_test.go   what holds on every target: contract.yaml on the embedded system, on the functions under the local Lambda host, on a deployed stack
//	target_*_test.go    how each of them is started, looked into and mended
//	lambda_test.go      real deliveries through functions that are killed, hang and get everything twice
//	chaos*_test.go      everything bad at once, judged by package chaos; chaos_mistakes_test.go shows that this can fail
//	security_test.go    logs that tell nothing, hostile identities, forged messages
//	tables_test.go      DynamoDB tables, read item by item
//
// What needs DynamoDB and SQS finds them by AWS_ENDPOINT_URL_DYNAMODB and its like: localstack/aws.sh run go -C e2e test. With ONCE_API_URL and ONCE_OUTPUTS, TestContract runs
// on the stack that is deployed there, see target_deployed_test.go.
//
// It is a module of its own, so that the AWS SDK stays out of the product's go.mod.
package e2e
