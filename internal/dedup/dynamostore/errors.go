package dynamostore

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// errOverwritten says that a condition failed, but an earlier try of the same call may have been
// applied before another writer overwrote it.
var errOverwritten = errors.New("condition failed after a try that may have been applied")

// conditionFailed reports whether an error says that a condition failed, and returns the stored
// item, if there is one.
func conditionFailed(err error) (stored item, failed bool) {
	if single, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return single.Item, true
	}
	if transaction, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		for _, reason := range transaction.CancellationReasons {
			if aws.ToString(reason.Code) == "ConditionalCheckFailed" {
				return reason.Item, true
			}
		}
	}
	return nil, false
}

// conflicts is how often a write is sent if each time a transaction in progress keeps it out.
const conflicts = 5

// tryAgain waits and reports true if a write of that round was not applied because a transaction on
// the same item was in progress: of a commit that appends to a log, when a clear or another commit
// comes meanwhile.
func (s *Store) tryAgain(ctx context.Context, round int, err error) bool {
	return conflicted(err) && round < conflicts && s.options.Pause(ctx, round) == nil
}

// conflicted reports whether a write was not applied because of a transaction in progress. If a
// condition failed too, it reports false.
func conflicted(err error) bool {
	if _, ok := errors.AsType[*types.TransactionConflictException](err); ok {
		return true
	}
	transaction, ok := errors.AsType[*types.TransactionCanceledException](err)
	if _, failed := conditionFailed(err); !ok || failed {
		return false
	}
	return slices.ContainsFunc(transaction.CancellationReasons, func(r types.CancellationReason) bool { return aws.ToString(r.Code) == "TransactionConflict" })
}

// refused reports whether the error of one try proves that the try was not applied: the service
// said so, or was never reached. After a timeout, a broken connection, an unreadable response or a
// server error, the try may have been applied.
func refused(err error) bool {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return true
	}
	_, answered := errors.AsType[smithy.APIError](err)
	response, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !answered || !ok {
		return false
	}
	status := response.HTTPStatusCode()
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError
}

// A doubt watches the tries of one call, and counts those that failed but may have been applied.
type doubt struct{ open int }

// watch is an option of the call.
func (d *doubt) watch(o *dynamodb.Options) { o.Retryer = &watched{Retryer: o.Retryer, doubt: d} }

// exists reports whether a try before the last one may have been applied.
func (d *doubt) exists() bool { return d.open > 0 }

// A watched retryer sees the error of every try.
type watched struct {
	aws.Retryer
	doubt *doubt
}

func (w *watched) IsErrorRetryable(err error) bool {
	if !refused(err) {
		w.doubt.open++
	}
	return w.Retryer.IsErrorRetryable(err)
}

// GetAttemptToken implements aws.RetryerV2, which the client prefers.
func (w *watched) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	if second, ok := w.Retryer.(aws.RetryerV2); ok {
		return second.GetAttemptToken(ctx)
	}
	return w.GetInitialToken(), nil
}
