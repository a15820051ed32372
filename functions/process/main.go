// Command process is the function behind the ingress queues: it runs each message through the engine. See internal/lambda for its environment.
package main

import "github.com/effectively-once/once/internal/lambda"

func main() { lambda.Start(lambda.Process) }
