package dynamostore_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/dedup/storetest"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// connect returns a client of the endpoint in the environment.
func connect(t *testing.T) *dynamodb.Client {
	t.Helper()
	// DynamoDB Local sends no checksum with an error, and the client would log each failed
	// condition.
	return dynamodb.NewFromConfig(awstest.Config(t, "DYNAMODB"), func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true })
}

func open(t *testing.T, client dynamostore.Client, tables dynamostore.Tables, now func() time.Time) *dynamostore.Store {
	t.Helper()
	store, err := dynamostore.New(client, tables, dynamostore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestStore(t *testing.T) {
	t.Parallel()
	client := connect(t)
	tables := map[record.Store]dynamostore.Tables{}
	storetest.Run(t, storetest.Harness{
		RecognisesCommit: true, MaxRecord: dynamostore.MaxItem,
		Open: func(t *testing.T, now func() time.Time) record.Store {
			t.Helper()
			its := awstest.Tables(t, client)
			s := open(t, client, its, now)
			tables[s] = its
			return s
		},
		Corrupt: func(t *testing.T, s record.Store, key any) { corrupt(t, client, tables[s], key) },
	})
}

// corrupt changes an attribute of a record to a kind that the store never writes.
func corrupt(t *testing.T, client *dynamodb.Client, tables dynamostore.Tables, key any) {
	t.Helper()
	table, its, attribute := dynamostore.Item(tables, key)
	_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &table, Key: its, UpdateExpression: aws.String("SET #a = :a"), ConditionExpression: aws.String("attribute_exists(#a)"),
		ExpressionAttributeNames:  map[string]string{"#a": attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":a": &types.AttributeValueMemberBOOL{Value: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
}
