package dynamostore_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
)

// The tables of this client contain one group's item, which refers to one claim.
type oneGroup struct {
	empty
	claim string
}

const ownerOfClaims = "b3JkZXJzI2E" // orders#a

func (o *oneGroup) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	pk := in.Key["pk"].(*types.AttributeValueMemberS)
	if pk.Value != "orders#a" {
		return &dynamodb.GetItemOutput{}, nil
	}
	return &dynamodb.GetItemOutput{Item: map[string]types.AttributeValue{
		"pk": pk, "f": &types.AttributeValueMemberN{Value: "1"}, "s": &types.AttributeValueMemberS{Value: o.claim},
	}}, nil
}

// FuzzClaimName sweeps a claim of any name. A claim to which a group refers must stay, and so must
// one whose name is not ours.
func FuzzClaimName(f *testing.F) {
	for _, name := range []string{"", "/", ownerOfClaims + "/x/s", ownerOfClaims, "b3RoZXIjZw/attempt/7", "not one of ours", "bm9ncm91cA/x/s", "\xff/\xff", ownerOfClaims + "==/x/s"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, referred := range []bool{true, false} {
			s := newShelf()
			s.claims[name] = []byte("x")
			client := &oneGroup{}
			if referred {
				client.claim = name
			}
			store, err := dynamostore.New(client, dynamostore.Tables{Groups: "g", Tokens: "t"}, dynamostore.Options{Claims: s})
			if err != nil {
				t.Fatal(err)
			}
			n, err := store.SweepClaims(t.Context(), time.Now())
			if _, there := s.claims[name]; err != nil || there != (n == 0) {
				t.Fatalf("swept %d, there %v: %v", n, there, err)
			}
			if isOwned := len(name) > len(ownerOfClaims) && name[:len(ownerOfClaims)+1] == ownerOfClaims+"/"; isOwned && referred && n > 0 {
				t.Fatalf("%q is referred to, and swept", name)
			}
		}
	})
}
