package outcome

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// Tokens cost what the settings say. What nobody says is unknown, and not nothing.
func TestR36CostsOfOutcomes(t *testing.T) {
	job, none := events.ID{1}, events.TokenPrices{}
	prices := events.TokenPrices{Input: 125, Output: 1000}
	for name, c := range map[string]struct {
		outcome string
		prices  events.TokenPrices
		want    events.RunCostRecorded
	}{
		"no outcome":          {``, prices, events.RunCostRecorded{Unknown: true}},
		"no cost":             {`{"status":"done"}`, prices, events.RunCostRecorded{Unknown: true}},
		"cents":               {`{"cost":{"cents":12.5}}`, prices, events.RunCostRecorded{Cents: 13}},
		"nothing":             {`{"cost":{"cents":0}}`, prices, events.RunCostRecorded{}},
		"a debt":              {`{"cost":{"cents":-3,"inputTokens":9}}`, prices, events.RunCostRecorded{Quantity: 9, Unknown: true}},
		"cents and tokens":    {`{"cost":{"cents":7,"inputTokens":5000}}`, prices, events.RunCostRecorded{Cents: 7, Quantity: 5000}},
		"tokens":              {`{"cost":{"inputTokens":400000,"outputTokens":20000}}`, prices, byPrices(70, 420_000)},
		"a few":               {`{"cost":{"inputTokens":1}}`, prices, byPrices(1, 1)},
		"none":                {`{"cost":{"inputTokens":0}}`, prices, events.RunCostRecorded{Unknown: true}},
		"tokens and no price": {`{"cost":{"inputTokens":400000}}`, none, events.RunCostRecorded{Quantity: 400_000, Unknown: true}},
		"too many":            {`{"cost":{"outputTokens":1000000000000}}`, prices, events.RunCostRecorded{Quantity: 1e12, Unknown: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Source, c.want.Key = "model", "job/"+job.String()+"/model"
			require.Equal(t, c.want, Parse([]byte(c.outcome), nil).CostOf(job, c.prices))
		})
	}
}

func byPrices(cents, tokens int64) events.RunCostRecorded {
	return events.RunCostRecorded{Cents: cents, Quantity: tokens, Basis: "price_table"}
}
