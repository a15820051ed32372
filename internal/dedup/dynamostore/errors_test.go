package dynamostore

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// answered returns an error as the client returns it after a reply of the service.
func answered(status int, err error) error {
	return &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "UpdateItem", Err: &awshttp.ResponseError{
		ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: err},
		RequestID:     "request",
	}}
}

// unanswered returns an error as the client returns it without a reply.
func unanswered(err error) error {
	return &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "UpdateItem", Err: &smithyhttp.RequestSendError{Err: err}}
}

func canceled(codes ...string) error {
	e := &types.TransactionCanceledException{}
	for _, code := range codes {
		e.CancellationReasons = append(e.CancellationReasons, types.CancellationReason{Code: aws.String(code), Item: item{attrPK: str(code)}})
	}
	return answered(400, e)
}

func TestOnlyACertainRefusalCountsAsNotApplied(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		refused bool
		failed  bool
	}{
		{"condition failed", answered(400, &types.ConditionalCheckFailedException{}), true, true},
		{"condition of a transaction failed", canceled("ConditionalCheckFailed", "None"), true, true},
		{"condition of a transaction failed beside a conflict", canceled("TransactionConflict", "ConditionalCheckFailed"), true, true},
		{"transaction met another", canceled("TransactionConflict", "None"), true, false},
		{"part of a transaction throttled", canceled("ThrottlingError", "None"), true, false},
		{"write met a transaction", answered(400, &types.TransactionConflictException{}), true, false},
		{"an earlier try of the transaction goes on", answered(400, &types.TransactionInProgressException{}), true, false},
		{"throttled by the table", answered(400, &types.ProvisionedThroughputExceededException{}), true, false},
		{"throttled by the account", answered(400, &types.RequestLimitExceeded{}), true, false},
		{"throttled", answered(400, &types.ThrottlingException{}), true, false},
		{"no such table", answered(400, &types.ResourceNotFoundException{}), true, false},
		{"expression refused", answered(400, &smithy.GenericAPIError{Code: "ValidationException"}), true, false},
		{"fault of the service", answered(500, &types.InternalServerError{}), false, false},
		{"service away", answered(503, &smithy.GenericAPIError{Code: "ServiceUnavailable"}), false, false},
		{"answer that can't be read", answered(200, &smithy.DeserializationError{Err: errors.New("use of closed network connection")}), false, false},
		{"neither a success nor a refusal", answered(307, &smithy.GenericAPIError{Code: "TemporaryRedirect"}), false, false},
		{"refusal that can't be read", answered(400, &smithy.DeserializationError{Err: io.ErrUnexpectedEOF}), false, false},
		{"error without an answer", &types.ConditionalCheckFailedException{}, false, true},
		{"connection refused", unanswered(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true, false},
		{"connection reset after the request was sent", unanswered(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), false, false},
		{"connection closed", unanswered(io.EOF), false, false},
		{"timeout", unanswered(context.DeadlineExceeded), false, false},
		{"cancelled", &smithy.OperationError{Err: &smithy.CanceledError{Err: context.Canceled}}, false, false},
		{"no error", nil, false, false},
	} {
		if got, want := conflicted(c.err), c.name == "transaction met another" || c.name == "write met a transaction"; got != want {
			t.Errorf("%s: conflicted %t, want %t", c.name, got, want)
		}
		if got := refused(c.err); got != c.refused {
			t.Errorf("%s: refused %t, want %t", c.name, got, c.refused)
		}
		if _, got := conditionFailed(c.err); got != c.failed {
			t.Errorf("%s: condition failed %t, want %t", c.name, got, c.failed)
		}
	}
}

func TestAFailedConditionReturnsTheItem(t *testing.T) {
	single := answered(400, &types.ConditionalCheckFailedException{Item: item{attrPK: str("ConditionalCheckFailed")}})
	for name, err := range map[string]error{"single": single, "transaction": canceled("None", "ConditionalCheckFailed")} {
		if it, _ := conditionFailed(err); partitionOf(it) != "ConditionalCheckFailed" {
			t.Errorf("%s: got the item %v", name, it)
		}
	}
}
