package dynamostore_test

import (
	"context"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
)

// An empty client has empty tables, and records each read and whether it was strongly consistent.
type empty struct {
	dynamostore.Client
	reads []string
	weak  []string
}

func (e *empty) note(name string, consistent *bool) {
	e.reads = append(e.reads, name)
	if !aws.ToBool(consistent) {
		e.weak = append(e.weak, name)
	}
}

func (e *empty) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	e.note("get "+*in.TableName, in.ConsistentRead)
	return &dynamodb.GetItemOutput{}, nil
}

func (e *empty) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	for table, keys := range in.RequestItems {
		e.note("batch "+table, keys.ConsistentRead)
	}
	return &dynamodb.BatchGetItemOutput{}, nil
}

func (e *empty) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	e.note("query "+*in.TableName, in.ConsistentRead)
	return &dynamodb.QueryOutput{}, nil
}

func (e *empty) Scan(_ context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	e.note("scan "+*in.TableName, in.ConsistentRead)
	return &dynamodb.ScanOutput{}, nil
}

func TestReadsAreStronglyConsistentAndGroupsComeBeforeTokens(t *testing.T) {
	client := &empty{}
	store, err := dynamostore.New(client, dynamostore.Tables{Groups: "groups", Tokens: "tokens"}, dynamostore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	groups := []record.GroupKey{{Stream: "orders", Group: "a"}, {Stream: "orders", Group: "b"}}
	tokens := []record.TokenKey{{1}, {2}}
	for range 2 {
		if _, _, err := store.Load(t.Context(), groups, tokens); err != nil {
			t.Fatal(err)
		}
		groups, tokens = groups[:1], tokens[:1]
	}
	if _, err := store.Held(t.Context(), record.HeldKey{Group: groups[0]}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ReadLog(t.Context(), record.LogRange{Group: groups[0], Last: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Groups(t.Context(), "", record.GroupKey{}, 1); err != nil {
		t.Fatal(err)
	}
	want := []string{"batch groups", "batch tokens", "get groups", "get tokens", "query groups", "query groups", "scan groups"}
	if !slices.Equal(client.reads, want) || len(client.weak) > 0 {
		t.Errorf("reads %v, want %v; weak %v", client.reads, want, client.weak)
	}
}

func TestAGlanceIsAScanForHalfThePrice(t *testing.T) {
	client := &empty{}
	store, err := dynamostore.New(client, dynamostore.Tables{Groups: "groups", Tokens: "tokens"}, dynamostore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Glance(t.Context(), record.GroupKey{}, 10); err != nil {
		t.Fatal(err)
	}
	if want := []string{"scan groups"}; !slices.Equal(client.weak, want) {
		t.Errorf("reads %v, of them %v not strongly consistent, want %v", client.reads, client.weak, want)
	}
}
