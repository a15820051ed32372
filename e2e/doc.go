// Package e2e checks the whole product from outside: it builds the real binary, runs it as a
// process, kills it at critical moments, and judges it by its output, files and requests.
//
// The judges share no code with the engine. They read the file destination line by line, the log of
// a separate webhook receiver, and the answers to clients.
//
//	server_test.go      a process that can be killed and restarted
//	killer_test.go      kills it at random moments
//	receiver_test.go    a webhook receiver that fails, loses replies, and remembers webhook-id
//	judge_test.go       the rules for output, receiver and stores
//	deliveries_test.go  real GitHub webhook payloads, from npm
//	http_test.go …      the checks of the embedded system
//	contract*_test.go   the rules for every target: contract.yaml on the embedded system, on the
//	                    functions under the local Lambda host, on a deployed stack
//	target_*_test.go    how each target is started, inspected and repaired
//	restored_test.go    a data folder that is put back to a copy
//	lambda_test.go      real deliveries through functions with kills, hangs and duplicates
//	chaos*_test.go      all faults together, judged by package chaos; chaos_mistakes_test.go shows
//	                    that this can fail
//	offline*_test.go    clients that are killed and come back, and readers that resume
//	chat_*_test.go      the page of examples/chat in a headless Chromium
//	console_page_test.go  the console in it, used by the keyboard
//	security_test.go    logs without secrets, hostile identities, forged messages
//	tables_test.go      DynamoDB tables, read item by item
//	groups_test.go      runs the groups of tests in groups.yaml that a change needs
//
// Tests that need DynamoDB and SQS use the endpoints in AWS_ENDPOINT_URL_DYNAMODB and related
// variables: localstack/aws.sh run go -C e2e test. With ONCE_API_URL and ONCE_OUTPUTS, TestContract
// runs on the stack that is deployed there, see target_deployed_test.go.
//
// It is a separate module, so that the AWS SDK stays out of the product's go.mod.
package e2e
