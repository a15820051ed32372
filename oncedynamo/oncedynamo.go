// Package oncedynamo keeps the tokens of decorators and middleware in a DynamoDB table, for
// services with replicas and for Lambda functions. It needs a client and a table, and nothing else.
//
//	tokens, err := oncedynamo.Tokens(dynamodb.NewFromConfig(cfg), "charges-tokens")
//	...
//	mux.Handle("POST /charges", once.Middleware(tokens, once.MiddlewareConfig{})(charge))
//
// # The table
//
// [CreateTable] makes the table. A template of your own needs a partition key "pk" of type S, no
// sort key, and "expires" as the attribute for the time to live. Several services may share a table
// if their names or streams differ. The table may also be the one for tokens of a deployed once
// system.
//
// A token is one item. Its key is a hash, so that the table shows no key of a caller:
//
//	pk            S  SHA-256 of principal, stream or name, and id, in hexadecimal
//	f             N  1, the version of this format
//	st            N  2 leased, 3 done
//	owner, epoch  S, N  the fence: unique to an attempt, and counted up by each takeover
//	fp            B  SHA-256 of the content
//	lease         N  the end of the lease, in milliseconds of Unix time
//	reply         B  a reply of at most 1 KB, in CBOR
//	rkey          S  the key of the item with a larger reply
//	x             N  when the token expires, in milliseconds
//	expires       N  the same in seconds, rounded up, for the time to live
//
// A larger reply is an item of its own with the attributes pk, f, reply, x and expires.
// An expired token counts as absent, whether or not DynamoDB has deleted it.
//
// # Reads and writes
//
// Reads are strongly consistent. Writes are single conditional writes on state, owner and epoch, so
// that one of several replicas wins. If the client library retries a request whose answer was lost,
// the write recognises itself by its owner. In a global table, let one Region run all requests: a
// condition holds within a Region only.
//
// # Permissions
//
// The service needs dynamodb:GetItem, PutItem and DeleteItem on the table.
//
// # Limits
//
// An item has at most 400 KB. A reply that is larger counts as too large, whatever MaxReply says.
package oncedynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/system"
)

// Tokens returns the tokens in a table. It makes no call, so a missing table or permission shows
// when the first message is handled. It returns an error if client is nil or table is empty.
func Tokens(client *dynamodb.Client, table string) (*once.Tokens, error) {
	if client == nil {
		return nil, errors.New("open tokens: the client is nil")
	}
	// The guard asks for tokens only, so that the table of groups is never used.
	store, err := dynamostore.New(client, dynamostore.Tables{Groups: table, Tokens: table}, dynamostore.Options{})
	if err != nil {
		return nil, fmt.Errorf("open tokens: %w", err)
	}
	return system.NewTokens(store).(*once.Tokens), nil
}

// creation limits how long CreateTable waits for the table.
const creation = 5 * time.Minute

// CreateTable creates a table with billing per request, waits until it can be used, for at most 5
// minutes, and turns on its time to live. It changes nothing if all that is there already. It is
// for tests and first steps: a service should not be allowed to create tables.
func CreateTable(ctx context.Context, client *dynamodb.Client, table string) error {
	if client == nil || table == "" {
		return errors.New("create table: a client and a name are required")
	}
	in := dynamostore.Schema(dynamostore.Tables{Groups: table, Tokens: table})[1]
	_, err := client.CreateTable(ctx, in)
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
		return fmt.Errorf("create table: %w", err)
	}
	wait := dynamodb.NewTableExistsWaiter(client)
	out, err := wait.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: &table}, creation)
	if err != nil {
		return fmt.Errorf("create table: %w", err)
	}
	if keys := out.Table.KeySchema; len(keys) != 1 || aws.ToString(keys[0].AttributeName) != aws.ToString(in.KeySchema[0].AttributeName) {
		return fmt.Errorf("create table: %s exists with another key than %q", table, aws.ToString(in.KeySchema[0].AttributeName))
	}
	if err := expire(ctx, client, table); err != nil {
		return fmt.Errorf("create table: turn on the time to live: %w", err)
	}
	return nil
}

// expire turns on the time to live, unless it is on: DynamoDB refuses that.
func expire(ctx context.Context, client *dynamodb.Client, table string) error {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	if d := out.TimeToLiveDescription; d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		if name := aws.ToString(d.AttributeName); name != dynamostore.TTLAttribute {
			return fmt.Errorf("it is on with the attribute %q instead of %q", name, dynamostore.TTLAttribute)
		}
		return nil
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(dynamostore.TTLAttribute), Enabled: aws.Bool(true)},
	})
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	return nil
}
