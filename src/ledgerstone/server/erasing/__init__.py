"""The owner's side of erasure: carries out the steps that `erasure.life` names."""
