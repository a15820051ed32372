package dynamostore_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// A program that knows no kept entries has to read one as a committed entry without effects, whose
// token it marks. So the entry itself has nothing new, and its mark is one of a sent effect.
func TestAKeptEntryReadsAsAnEntryWithoutEffectsToAnOlderProgram(t *testing.T) {
	t.Parallel()
	client := connect(t)
	tables := awstest.Tables(t, client)
	store := open(t, client, tables, time.Now)
	key := record.GroupKey{Stream: "orders", Group: "a"}
	entry := record.Pending{Number: 1, Identity: "a", Token: record.NewTokenKey("", "orders", "a"), Attempt: "x.1", Marks: true, Retention: time.Hour, Reply: &record.Reply{Status: 200}}
	entry.Fingerprint[0] = 1
	effects := entry
	effects.Effects = []record.Effect{{To: []string{"out"}, Body: []byte("sent")}}
	for _, clears := range []bool{false, true} {
		g := record.Group{Key: key, Version: 1, Incarnation: 1, Last: 1, Pending: []record.Pending{entry.Keep(time.Now())}}
		if clears {
			g.Pending[0] = effects
		}
		if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: key}, Next: g, Attempt: "x"}); err != nil {
			t.Fatal(err)
		}
		if clears {
			if err := store.Clear(t.Context(), record.Clear{Group: key, Incarnation: 1, Done: []record.Pending{entry.Keep(time.Now())}}); err != nil {
				t.Fatal(err)
			}
		}
		table, its, _ := dynamostore.Item(tables, key)
		got, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: its})
		if err != nil {
			t.Fatal(err)
		}
		mark := got.Item["sent"].(*types.AttributeValueMemberM).Value["1"].(*types.AttributeValueMemberB).Value
		d := encoding.NewDecoder(mark)
		if marks := encoding.ListOf(d, encoding.ReadSent); len(marks) != 1 || d.End() != nil {
			t.Errorf("marks %v, %v", marks, d.End())
		}
		_, err = client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &table, Key: its, UpdateExpression: aws.String("REMOVE #s.#n"), ExpressionAttributeNames: map[string]string{"#s": "sent", "#n": "1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		groups, _, err := store.Load(t.Context(), []record.GroupKey{key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]record.Pending{entry}, groups[0].Pending); diff != "" {
			t.Errorf("without its mark (-want +got):\n%s", diff)
		}
		if _, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: its}); err != nil {
			t.Fatal(err)
		}
	}
}
