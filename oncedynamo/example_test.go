package oncedynamo_test

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncedynamo"
)

// A service with replicas: each replica opens the same table.
func Example() {
	cfg, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		panic(err)
	}
	tokens, err := oncedynamo.Tokens(dynamodb.NewFromConfig(cfg), "charges-tokens")
	if err != nil {
		panic(err)
	}

	charge := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated) // after charging the card
	})
	mux := http.NewServeMux()
	mux.Handle("POST /charges", once.Middleware(tokens, once.MiddlewareConfig{Name: "charges"})(charge))
	if err := http.ListenAndServe("127.0.0.1:8080", mux); err != nil {
		panic(err)
	}
}
