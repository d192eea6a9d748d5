package serve_test

import "testing"

// What depends on the store holds on each.
func TestStores(t *testing.T) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, *lab)
	}{
		{"ListRuns", testListRuns},
		{"ListPauses", testListPauses},
		{"RunOverHTTP", testRunOverHTTP},
		{"IdempotencyKey", testIdempotencyKey},
		{"AnswersAtOnce", testAnswersAtOnce},
		{"Tokens", testTokens},
		{"Orders", testOrders},
		{"Fork", testFork},
		{"PreferWait", testPreferWait}, {"ForkKey", testForkKey},
		{"LiveStream", testLiveStream},
		{"StreamOfSeveral", testStreamOfSeveral},
		{"Metrics", testMetricsOfTheStore},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			t.Run("sqlite", func(t *testing.T) { tt.test(t, newLab(t, nil)) })
			t.Run("postgres", func(t *testing.T) { tt.test(t, labOf(t, openPostgres(t, nil), nil)) })
		})
	}
}
