// Command ingest is the function behind API Gateway: it takes messages and requests in over HTTP.
// See internal/system/function/environment for its environment.
package main

import "github.com/effectively-once/once/internal/system/function"

func main() { function.Start(function.Ingest) }
