package main

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/oncedynamo"
)

func TestUsageErrorsOfMigrate(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ args, want string }{
		{"", "name both tables with --from and --to"},
		{"--from a --to a --language python --stream s", "must be two tables"},
		{"--from a --to b --language python", "name either the stream of a decorator"},
		{"--from a --to b --language python --stream s --middleware m", "name either the stream of a decorator"},
		{"--from a --to b --stream s", `language "" is neither`},
		{"--from a --to b --language ruby --stream s", `language "ruby" is neither`},
		{"--from a --to b --language java --stream s --reply xml", `reply "xml" is neither`},
		{"--from a --to b --language java --stream ~s", "stream"},
	} {
		args := append([]string{"migrate", "powertools"}, strings.Fields(c.args)...)
		if code := w.once(t.Context(), "", args...); code != exitUsage || !strings.Contains(w.err.String(), c.want) {
			t.Errorf("once migrate powertools %s: exit %d, %q; want exit %d and %q", c.args, code, w.err.String(), exitUsage, c.want)
		}
	}
}

// oldTable makes a table with two records of Powertools, one of which can't be read.
func oldTable(t *testing.T, client *dynamodb.Client) string {
	t.Helper()
	table := "old-" + rand.Text()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	expires := strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
	for key, status := range map[string]string{"f#1": "COMPLETED", "f#2": "LOST"} {
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
			"id": &types.AttributeValueMemberS{Value: key}, "status": &types.AttributeValueMemberS{Value: status}, "expiration": &types.AttributeValueMemberN{Value: expires},
			"data": &types.AttributeValueMemberS{Value: "{}"},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return table
}

func TestMigratePrintsCountsAndNamesWhatFailed(t *testing.T) {
	client := dynamodb.NewFromConfig(awstest.Config(t, "DYNAMODB"))
	old, tokens := oldTable(t, client), "tokens-"+rand.Text()
	if err := oncedynamo.CreateTable(t.Context(), client, tokens); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, table := range []string{old, tokens} {
			if _, err := client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
				t.Errorf("delete table: %v", err)
			}
		}
	})
	w := newWorld(t)
	args := []string{"migrate", "powertools", "--from", old, "--to", tokens, "--language", "python", "--middleware", ""}
	for _, c := range []struct{ flag, want string }{
		{"--dry-run", "read 2 records: 1 copied, 0 in progress, 0 there, 0 newer, 0 expired, 0 abandoned, 0 other, 1 failed; nothing was written\n"},
		{"--json=false", "read 2 records: 1 copied, 0 in progress, 0 there, 0 newer, 0 expired, 0 abandoned, 0 other, 1 failed\n"},
		{"--json", `"present": 1,`},
	} {
		code := w.once(t.Context(), "", append(args, c.flag)...)
		if code != exitIncomplete || !strings.Contains(w.out.String(), c.want) || !strings.Contains(w.err.String(), `record f#2: its "status" is neither`) {
			t.Errorf("%s: exit %d, %q, %q; want exit %d, %q, and the record that failed", c.flag, code, w.out.String(), w.err.String(), exitIncomplete, c.want)
		}
	}
	for _, missing := range [][2]string{{old, "none"}, {"none", tokens}} {
		code := w.once(t.Context(), "", "migrate", "powertools", "--from", missing[0], "--to", missing[1], "--language", "python", "--stream", "s")
		if code != exitUsage || !strings.Contains(w.err.String(), "ResourceNotFoundException") {
			t.Errorf("from %s to %s: exit %d, %q; want exit %d, because a table is missing", missing[0], missing[1], code, w.err.String(), exitUsage)
		}
	}
}
