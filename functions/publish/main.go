// Command publish is the function behind the publish queues: it sends pending effects to their destinations. See internal/lambda for its environment.
package main

import "github.com/effectively-once/once/internal/lambda"

func main() { lambda.Start(lambda.Publish) }
