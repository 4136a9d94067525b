package leader

// LeaseDuration is how long a lease lasts.
const LeaseDuration = leaseDuration
