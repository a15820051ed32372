// Command hello is a minimal function in Go, with which the bench compares the start of the
// project's functions.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	lambda.Start(func(context.Context) (string, error) { return "hello", nil })
}
