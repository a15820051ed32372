package dynamostore

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TTLAttribute is the attribute that both tables' time-to-live is to be set to.
const TTLAttribute = attrTTL

// Schema describes the tables, as emulators and tests create them; a deployment's template says the same.
func Schema(t Tables) []*dynamodb.CreateTableInput {
	groups := schema(t.Groups, attrPK, attrSK)
	groups.AttributeDefinitions = append(groups.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(attrHeld), AttributeType: types.ScalarAttributeTypeS})
	groups.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{
		IndexName: aws.String(WaitingIndex), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(attrHeld), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(attrPK), KeyType: types.KeyTypeRange},
		},
	}}
	return []*dynamodb.CreateTableInput{groups, schema(t.Tokens, attrPK)}
}

// schema is a table with a partition key and perhaps a sort key.
func schema(name string, keys ...string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{TableName: aws.String(name), BillingMode: types.BillingModePayPerRequest}
	for i, key := range keys {
		kind := []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i]
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(key), AttributeType: types.ScalarAttributeTypeS})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: aws.String(key), KeyType: kind})
	}
	return in
}
