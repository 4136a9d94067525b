package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
)

func sample(n int, repo, by string, files int, cents, ms int64) client.Sample {
	return client.Sample{Run: fmt.Sprint(n), Features: client.Features{Repo: repo, Implementer: by, Files: files}, Merged: true, Cents: &cents,
		WorkMS: ms}
}

func TestFewRunsGiveNoNumbers(t *testing.T) {
	t.Parallel()
	in := client.EstimateInput{Run: client.Features{Repo: "a", Implementer: "x"}}
	for n := range fewest {
		got := Of(in)
		require.Nil(t, got.Cents)
		require.Nil(t, got.WorkMS)
		require.Len(t, got.Basis, n)
		in.Samples = append(in.Samples, sample(n, "a", "x", 1, int64(n), 10*int64(n)))
	}
	got := Of(in)
	require.Equal(t, &client.Spread{P50: 2, P80: 4}, got.Cents)
	require.Equal(t, &client.Spread{P50: 20, P80: 40}, got.WorkMS)
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, got.Basis)
	require.Equal(t, 5, got.Merged)
}

func TestClosestRunsCountFirst(t *testing.T) {
	t.Parallel()
	in := client.EstimateInput{Run: client.Features{Repo: "a", Implementer: "x", Files: 8}}
	for n := range 30 {
		in.Samples = append(in.Samples, sample(n, "b", "y", 8, 1, 1))
	}
	in.Samples = append(in.Samples, sample(30, "b", "x", 8, 2, 2), sample(31, "a", "x", 800, 3, 3), sample(32, "a", "x", 9, 4, 4))
	got := Of(in)
	require.Equal(t, []string{"32", "31", "30", "0"}, got.Basis[:4])
	require.Len(t, got.Basis, nearest)
}

// A cost that is not known is no number, and the time of a run that was stopped is only a lower bound.
func TestUnknownIsNotZero(t *testing.T) {
	t.Parallel()
	var in client.EstimateInput
	for n := range 6 {
		s := sample(n, "a", "x", 1, 100, 1000)
		if n < 2 {
			s.Cents = nil
		}
		in.Samples = append(in.Samples, s)
	}
	require.Nil(t, Of(in).Cents)
	stopped := sample(6, "a", "x", 1, 100, 10)
	stopped.Merged = false
	in.Samples = append(in.Samples, stopped)
	got := Of(in)
	require.Equal(t, &client.Spread{P50: 1000, P80: 1000}, got.WorkMS, "it was stopped early")
	require.Equal(t, []int{6, 7}, []int{got.Merged, len(got.Basis)})
	require.Equal(t, &client.Spread{P50: 100, P80: 100}, got.Cents, "what it cost counts")
	for n := range 3 {
		stopped.Run, stopped.WorkMS = fmt.Sprint(7+n), 9000
		in.Samples = append(in.Samples, stopped)
	}
	require.Equal(t, &client.Spread{P50: 1000, P80: 9000}, Of(in).WorkMS, "it would have taken longer still")
}

// The 80th percentile of n numbers holds for the next one with probability k/(n+1), where it is the kth smallest.
func TestPercentileHoldsAsOftenAsItSays(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func() float64{
		"uniform": r.Float64, "exponential": r.ExpFloat64, "log-normal": func() float64 { return math.Exp(r.NormFloat64()) },
		"two peaks":  func() float64 { return r.NormFloat64() + 8*float64(r.IntN(2)) },
		"heavy tail": func() float64 { return 1 / (1 - r.Float64()) },
	}
	const draws = 15_000
	for name, draw := range shapes {
		for _, n := range []int{5, 9, 20} {
			k, held := (80*(n+1)+99)/100, 0
			for range draws {
				numbers := make([]int64, n)
				for i := range numbers {
					numbers[i] = int64(1e6 * min(draw(), 1e6))
				}
				if int64(1e6*min(draw(), 1e6)) <= spread(numbers, nil).P80 {
					held++
				}
			}
			require.InDelta(t, float64(k)/float64(n+1), float64(held)/draws, 0.012, "%s, %d samples", name, n)
		}
	}
}
