package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function"
	"github.com/effectively-once/once/internal/system/function/environment"
)

// tables are the tables of all consumers.
type tables struct {
	ours              dynamostore.Tables
	counters, records string
	db                *dynamodb.Client
}

// makeTables creates them in the DynamoDB of the environment.
func makeTables(ctx context.Context) (tables, func() error, error) {
	cfg, err := awsconfig.Load(ctx)
	if err != nil {
		return tables{}, nil, err
	}
	clients := function.NewClients(cfg)
	name := "faults-" + rand.Text()
	t := tables{dynamostore.Tables{Groups: name + "-groups", Tokens: name + "-tokens"}, name + "-counters", name + "-records", clients.DynamoDB}
	schemas := append(dynamostore.Schema(t.ours), simpleTable(t.counters, "pk"), simpleTable(t.records, "id"))
	for _, in := range schemas {
		if _, err := t.db.CreateTable(ctx, in); err != nil {
			return tables{}, nil, fmt.Errorf("create table: %w", err)
		}
		if err := dynamodb.NewTableExistsWaiter(t.db).Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, time.Minute); err != nil {
			return tables{}, nil, fmt.Errorf("wait for table: %w", err)
		}
	}
	return t, func() (err error) {
		for _, in := range schemas {
			_, failed := t.db.DeleteTable(context.WithoutCancel(ctx), &dynamodb.DeleteTableInput{TableName: in.TableName})
			err = errors.Join(err, failed)
		}
		return err
	}, nil
}

func simpleTable(name, key string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
	}
}

// environment returns variables with the tables. The queues of the functions are those of the
// trial's broker, with any host.
func (t tables) environment() []string {
	const queue = "https://sqs.us-east-1.amazonaws.com/000000000000/"
	return []string{
		"FAULTS_COUNTERS=" + t.counters, "FAULTS_RECORDS=" + t.records, environment.GroupsTable + "=" + t.ours.Groups, environment.TokensTable + "=" + t.ours.Tokens,
		environment.IngressQueue + "=" + queue + "ingress", environment.IngressFIFOQueue + "=" + queue + "ingress.fifo",
		environment.PublishQueue + "=" + queue + "publish", environment.PublishFIFOQueue + "=" + queue + "publish.fifo",
		environment.DeadQueue + "=" + queue + "dead", environment.DeadPublishQueue + "=" + queue + "dead-publish", environment.TrustedSenders + "=" + sender,
	}
}

// count returns how often the state of a message was changed.
func (t tables) count(ctx context.Context, c *consumer, id string) (int, error) {
	if c.ours {
		return t.countOurs(ctx, id)
	}
	out, err := t.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &t.counters, Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: id}}, ConsistentRead: aws.Bool(true),
	})
	if err != nil || out.Item == nil {
		return 0, err
	}
	n, ok := out.Item["n"].(*types.AttributeValueMemberN)
	if !ok {
		return 0, errors.New("a counter without a number")
	}
	return strconv.Atoi(n.Value)
}

func (t tables) countOurs(ctx context.Context, id string) (int, error) {
	store, err := dynamostore.New(t.db, t.ours, dynamostore.Options{})
	if err != nil {
		return 0, err
	}
	groups, _, err := store.Load(ctx, []record.GroupKey{{Stream: "messages", Group: id}}, nil)
	if err != nil || len(groups[0].State) == 0 {
		return 0, err
	}
	var state struct {
		Count int `json:"count"`
	}
	err = json.Unmarshal(groups[0].State, &state)
	return state.Count, err
}
