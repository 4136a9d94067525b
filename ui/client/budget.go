package client

// CostLimit returns how many cents a run may cost, 0 for no limit.
func (b *Budget) CostLimit() int64 {
	if b == nil || b.CostCents == nil {
		return 0
	}
	return *b.CostCents
}

// ComputeLimit returns how many milliseconds of compute the jobs of a run may use together,
// 0 for no limit.
func (b *Budget) ComputeLimit() int64 {
	if b == nil || b.ComputeMs == nil {
		return 0
	}
	return *b.ComputeMs
}
