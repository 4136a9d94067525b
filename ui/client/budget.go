package client

// Cost is how many cents a run may cost, 0 if that has no limit.
func (b *Budget) Cost() int64 {
	if b == nil || b.CostCents == nil {
		return 0
	}
	return *b.CostCents
}

// Compute is how many milliseconds its jobs may take together, 0 if that has no limit.
func (b *Budget) Compute() int64 {
	if b == nil || b.ComputeMs == nil {
		return 0
	}
	return *b.ComputeMs
}
