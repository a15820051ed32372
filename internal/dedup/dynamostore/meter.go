package dynamostore

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

// A Meter counts what the calls of clients cost, as DynamoDB itself says it. A call that fails is a request without units, though a failed condition is charged too.
// The zero value is ready.
type Meter struct {
	mu   sync.Mutex
	cost Cost
}

// Cost is what calls cost.
type Cost struct {
	// Requests counts every try, also those that the SDK repeats.
	Requests int
	// WriteUnits are one for each KB of an item written, two in a transaction.
	WriteUnits float64
	// ReadUnits are one for each 4 KB read with strong consistency.
	ReadUnits float64
}

// Reset gives what was counted, and begins at zero again.
func (m *Meter) Reset() Cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cost
	m.cost = Cost{}
	return c
}

// Attach is an option of a client: its calls are counted.
func (m *Meter) Attach(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		if err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc("MeterUnits", m.units), middleware.Before); err != nil {
			return err
		}
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("MeterRequests", m.request), middleware.Before)
	})
}

// units asks for the units of a call and adds them.
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

// consumed is the sum of the units in an answer.
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
