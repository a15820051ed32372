// Command linked is a function in Go that does nothing, and links the clients of DynamoDB and SQS:
// the floor of the project's functions, with whose start the bench compares theirs.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

func main() {
	table, queue := dynamodb.New(dynamodb.Options{Region: "us-east-1"}), sqs.New(sqs.Options{Region: "us-east-1"})
	lambda.Start(func(ctx context.Context, event string) (string, error) {
		if event != "call" {
			return "hello", nil
		}
		// Without calls the linker would leave the clients out.
		if _, err := table.UpdateItem(ctx, &dynamodb.UpdateItemInput{}); err != nil {
			return "", err
		}
		_, err := queue.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{})
		return "", err
	})
}
