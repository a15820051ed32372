// Command simple has the two deduplicating consumers that are most often written by hand. Both use
// the handler of all consumers in this comparison: it counts the message in an item of its own, and
// sends the count.
//
//	FAULTS_ORDER=handle-store  looks up the message in a table of processed messages, handles it,
//	                           and stores it there
//	FAULTS_ORDER=store-handle  stores the message, if it is not there yet, and handles it
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A consumer reads the names of its tables and the address of its receiver from the environment.
type consumer struct {
	db                            *dynamodb.Client
	counters, processed, receiver string
	storesFirst                   bool
}

type message struct {
	ID string `json:"id"`
}

func main() {
	c, err := open(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "simple:", err)
		os.Exit(1)
	}
	lambda.Start(c.consume)
}

func open(ctx context.Context) (*consumer, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	c := &consumer{counters: os.Getenv("FAULTS_COUNTERS"), processed: os.Getenv("FAULTS_RECORDS"), receiver: os.Getenv("FAULTS_RECEIVER"), storesFirst: os.Getenv("FAULTS_ORDER") == "store-handle"}
	c.db = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = aws.ToString(o.BaseEndpoint) != "" })
	return c, nil
}

func (c *consumer) consume(ctx context.Context, event events.SQSEvent) error {
	var m message
	if err := json.Unmarshal([]byte(event.Records[0].Body), &m); err != nil {
		return err
	}
	if c.storesFirst {
		return c.storeHandle(ctx, m)
	}
	return c.handleStore(ctx, m)
}

func (c *consumer) handleStore(ctx context.Context, m message) error {
	known, err := c.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &c.processed, Key: key("id", m.ID), ConsistentRead: aws.Bool(true)})
	if err != nil || known.Item != nil {
		return err
	}
	if err := c.handle(ctx, m); err != nil {
		return err
	}
	_, err = c.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &c.processed, Item: key("id", m.ID)})
	return err
}

func (c *consumer) storeHandle(ctx context.Context, m message) error {
	_, err := c.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &c.processed, Item: key("id", m.ID), ConditionExpression: aws.String("attribute_not_exists(id)")})
	if _, duplicate := errors.AsType[*types.ConditionalCheckFailedException](err); duplicate {
		return nil
	}
	if err != nil {
		return err
	}
	return c.handle(ctx, m)
}

// handle is the handler, the same in every consumer.
func (c *consumer) handle(ctx context.Context, m message) error {
	out, err := c.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &c.counters, Key: key("pk", m.ID), UpdateExpression: aws.String("ADD n :one"), ReturnValues: types.ReturnValueUpdatedNew,
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
	})
	if err != nil {
		return err
	}
	n, ok := out.Attributes["n"].(*types.AttributeValueMemberN)
	if !ok {
		return errors.New("no count")
	}
	return c.send(ctx, m.ID, n.Value)
}

func (c *consumer) send(ctx context.Context, id, count string) error {
	body := fmt.Appendf(nil, `{"id":%q,"count":%s}`, id, count)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.receiver, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Webhook-Id", id)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the receiver answers %s", answer.Status)
	}
	return nil
}

func key(name, id string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{name: &types.AttributeValueMemberS{Value: id}}
}
