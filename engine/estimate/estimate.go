// Package estimate says what a run will cost and how long it will work, from what happened to runs before it. It
// only counts: whatever it says names the runs that it is based on.
package estimate

import (
	"cmp"
	"math"
	"slices"

	"svc/engine/client"
)

const (
	nearest = 20 // samples that an estimate is based on
	fewest  = 5  // below which there are no numbers
)

// Of returns the estimate of a run from the samples that are most like it.
//
// A quantile q of n numbers is the ⌈q·(n+1)⌉th smallest: if the run is like its samples, it stays below with a
// probability of at least q, however the numbers are distributed (split conformal prediction). That the nearest
// samples were chosen makes it approximate, which is why people are shown how often it held.
func Of(in client.EstimateInput) client.EstimateResult {
	samples := closest(in)
	out := client.EstimateResult{Size: size(in.Run), Basis: []string{}}
	var cents, done, cut []int64
	for _, s := range samples {
		out.Basis = append(out.Basis, s.Run)
		if s.Merged {
			out.Merged++
			done = append(done, s.WorkMS)
		} else {
			cut = append(cut, s.WorkMS)
		}
		if s.Cents != nil {
			cents = append(cents, *s.Cents)
		}
	}
	out.Cents = spread(cents, nil)
	out.WorkMS = spread(done, cut)
	return out
}

// closest returns the samples that are most like a run, the closest first: those of its repository and implementer,
// then those of its implementer, then others, and among these those of the same size.
func closest(in client.EstimateInput) []client.Sample {
	rank := func(s client.Sample) int {
		switch {
		case s.Implementer != in.Run.Implementer:
			return 2
		case s.Repo != in.Run.Repo:
			return 1
		}
		return 0
	}
	list := slices.Clone(in.Samples)
	slices.SortStableFunc(list, func(a, b client.Sample) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(distance(a.Features, in.Run), distance(b.Features, in.Run)))
	})
	return list[:min(len(list), nearest)]
}

// distance compares sizes by their logarithms, as far as both are known.
func distance(a, b client.Features) (d float64) {
	for _, pair := range [][2]int{{a.Files, b.Files}, {a.Lines, b.Lines}} {
		if pair[0] > 0 && pair[1] > 0 {
			d += math.Abs(math.Log(float64(pair[0]) / float64(pair[1])))
		}
	}
	return d
}

// spread returns the median and the 80th percentile of numbers, nil if there are too few. Those of cut would have
// become larger: they count if they are larger than the 80th percentile already.
func spread(numbers, cut []int64) *client.Spread {
	if len(numbers) < fewest {
		return nil
	}
	middle := quantile(numbers, 50)
	high := quantile(numbers, 80)
	for _, n := range cut {
		if n > high {
			numbers = append(numbers, n)
		}
	}
	return &client.Spread{P50: middle, P80: quantile(numbers, 80)}
}

// quantile returns the ⌈percent/100·(n+1)⌉th smallest of n numbers, or the largest if there are not as many.
func quantile(numbers []int64, percent int) int64 {
	sorted := slices.Sorted(slices.Values(numbers))
	k := (percent*(len(sorted)+1) + 99) / 100
	return sorted[min(k, len(sorted))-1]
}

// size names the size of a change: by its lines, or else by its files, "" if nothing is known.
func size(f client.Features) string {
	n := f.Lines
	if n == 0 {
		n = f.Files * linesOfFile
	}
	switch {
	case n == 0:
		return ""
	case n <= 50:
		return "small"
	case n <= 400:
		return "medium"
	}
	return "large"
}

// linesOfFile is how many lines a change is taken to have in each of its files until there is a diff.
const linesOfFile = 30
