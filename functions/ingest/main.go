// Command ingest is the function behind API Gateway: it takes messages and requests in over HTTP. See internal/lambda for its environment.
package main

import "github.com/effectively-once/once/internal/lambda"

func main() { lambda.Start(lambda.Ingest) }
