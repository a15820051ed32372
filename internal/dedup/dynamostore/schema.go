package dynamostore

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TTLAttribute is the attribute for the time-to-live of both tables.
const TTLAttribute = attrTTL

// Schema returns the definitions of the tables, with which emulators and tests create them. A
// deployment's template has the same definitions.
func Schema(t Tables) []*dynamodb.CreateTableInput {
	groups := schema(t.Groups, attrPK, attrSK)
	groups.AttributeDefinitions = append(groups.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(attrHeld), AttributeType: types.ScalarAttributeTypeS})
	groups.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{
		IndexName: aws.String(waitingIndex), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(attrHeld), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(attrPK), KeyType: types.KeyTypeRange},
		},
	}}
	return []*dynamodb.CreateTableInput{groups, schema(t.Tokens, attrPK)}
}

// schema returns the definition of a table with a partition key and optionally a sort key.
func schema(name string, keys ...string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{TableName: aws.String(name), BillingMode: types.BillingModePayPerRequest}
	for i, key := range keys {
		kind := []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i]
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(key), AttributeType: types.ScalarAttributeTypeS})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: aws.String(key), KeyType: kind})
	}
	return in
}
