// Package capacity counts what calls to DynamoDB cost.
package capacity

import (
	"context"
	"reflect"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// A Meter counts requests and the capacity units that DynamoDB reports for them. A failed call
// counts as a request without units, although DynamoDB bills a failed condition. The zero value is
// ready to use.
type Meter struct {
	mu   sync.Mutex
	cost Cost
}

// Cost is the cost of a number of calls.
type Cost struct {
	// Requests counts every try, including the SDK's retries.
	Requests int
	// WriteUnits are one per KB of an item written, two in a transaction.
	WriteUnits float64
	// ReadUnits are one per 4 KB read with strong consistency.
	ReadUnits float64
}

// Reset returns the counts and sets them to zero.
func (m *Meter) Reset() Cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cost
	m.cost = Cost{}
	return c
}

// Attach is an option of a client that counts its calls.
func (m *Meter) Attach(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		if err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc("MeterUnits", m.units), middleware.Before); err != nil {
			return err
		}
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("MeterRequests", m.request), middleware.Before)
	})
}

// units requests the consumed capacity of a call, and adds it.
func (m *Meter) units(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	if ask := reflect.ValueOf(in.Parameters).Elem().FieldByName("ReturnConsumedCapacity"); ask.IsValid() {
		ask.Set(reflect.ValueOf(types.ReturnConsumedCapacityTotal))
	}
	out, metadata, err := next.HandleInitialize(ctx, in)
	if err == nil {
		m.add(awsmiddleware.GetOperationName(ctx), consumed(out.Result))
	}
	return out, metadata, err
}

// consumed returns the sum of the units in a response.
func consumed(answer any) float64 {
	field := reflect.ValueOf(answer).Elem().FieldByName("ConsumedCapacity")
	if !field.IsValid() {
		return 0
	}
	units := 0.0
	switch capacity := field.Interface().(type) {
	case *types.ConsumedCapacity:
		if capacity != nil {
			units = aws.ToFloat64(capacity.CapacityUnits)
		}
	case []types.ConsumedCapacity:
		for _, c := range capacity {
			units += aws.ToFloat64(c.CapacityUnits)
		}
	}
	return units
}

func (m *Meter) add(operation string, units float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch operation {
	case "GetItem", "BatchGetItem", "Query", "Scan":
		m.cost.ReadUnits += units
	default:
		m.cost.WriteUnits += units
	}
}

// request counts one try.
func (m *Meter) request(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	m.mu.Lock()
	m.cost.Requests++
	m.mu.Unlock()
	return next.HandleDeserialize(ctx, in)
}
